"""Whether a run's claim still holds."""

from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import STORE, AsJson, Progress, ProgressForm, Run, StoreFolder, as_json
from netdyno.cli._output import put, tell
from netdyno.cli._progress import listening, loading
from netdyno.store import Store


def replay(
    *, run: Run = "last", store: StoreFolder = STORE, json: AsJson = False, progress: Progress = ProgressForm.AUTO
) -> int:
    """Check whether a run's claim still holds.

    Measures its kept changes against its baseline again, in fresh processes; exits with 1 when the claim fails.
    """
    record = Store(store).load(run)
    with listening(progress) as listener:
        loading(listener)
        if record.target.command:
            from netdyno.bench_script import replay as measured_again
        else:
            from netdyno.bench import replay as measured_again

        found = measured_again(record, listener=listener)
    put(as_json(found) if json else found.says)
    if found.differences:
        tell(f"measured under another {', '.join(found.differences)} than the claim: that alone can move it")
    return DONE if found.holds else NO
