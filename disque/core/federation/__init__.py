"""Jobs travel to where consumers wait."""
