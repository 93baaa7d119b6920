"""What a folder says of itself: strategies, libraries and ways to multiply, and the catalogue that finds them."""
