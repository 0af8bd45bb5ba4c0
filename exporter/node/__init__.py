"""The machine around the GPUs as one interface: this node, a simulated one, or none."""
