"""Question sets made from a team's own documents: read, cut, link, ask, check, hand over."""
