"""Host use of each owner, and what its host side did between two sampling cycles."""
