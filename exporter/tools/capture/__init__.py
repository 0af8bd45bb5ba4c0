"""Recording a driver's answers to a file, and replaying such a file as a driver."""
