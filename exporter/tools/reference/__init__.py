"""Tables of the documentation, made from the declarations in the code."""
