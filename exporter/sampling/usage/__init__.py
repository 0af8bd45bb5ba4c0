"""What each owner uses of the host, and what its host side did between two sampling cycles."""
