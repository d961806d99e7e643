"""The `weighbridge` command: what can be typed, and where each command lives."""

import typer

from cli import batches, chaos, demo, doctor, keys, migrate, schedules, stream, truth, up, webhooks

app = typer.Typer(
    name="weighbridge",
    help="Asynchronous decisions from language models: durable batches, one prefill per state, "
    "an audit of every answer.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command()(up.up)
app.command()(demo.demo)
app.command()(batches.submit)
app.command()(batches.status)
app.command()(batches.watch)
app.command()(batches.results)
app.command()(batches.cancel)
app.command()(stream.stream)
app.command()(truth.truth)
app.add_typer(schedules.app, name="schedules")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(keys.app, name="keys")
app.command()(migrate.migrate)
app.command()(doctor.doctor)
app.command()(chaos.chaos)
