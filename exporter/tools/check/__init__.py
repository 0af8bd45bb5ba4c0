"""The verdict on this node's GPUs: facts in, findings out; reading and draining stand at the edges."""
