"""The accounting service: the allocations of all nodes in one database, for months, invoices and corrections."""
