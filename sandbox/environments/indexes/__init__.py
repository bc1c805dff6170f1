"""Package indexes: which this machine is set up for, with which logins they are asked, and the gateway to them."""
