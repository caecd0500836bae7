"""What must hold before a trained module is exported, one file per item."""
