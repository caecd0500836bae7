"""An unmodified training script on the dyno, seen from the lab: started, isolated, followed, driven, stopped."""
