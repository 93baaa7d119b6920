"""What every strategy shares and no framework owns: the contract, the measured loop, the record, the launcher."""
