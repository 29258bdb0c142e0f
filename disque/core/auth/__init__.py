"""Users, how they log in, and what they may."""
