"""What each tripwire knows: from plain numbers to "this is not how the run was", with the run itself as the measure."""
