"""Other people's implementations, and what they answered."""
