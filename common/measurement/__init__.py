"""How a launch is measured: the loop with its clock, the record that it leaves, the machine that it ran on."""
