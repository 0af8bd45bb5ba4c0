"""Tasks of Nomad on this node, from its local agent."""
