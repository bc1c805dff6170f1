"""What lies on a disk: whose a folder is, what is in it, when it is whole, and who holds it at the moment."""
