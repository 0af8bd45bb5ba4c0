"""The ways in which there is no report, each with an exit status of its own."""

from __future__ import annotations


class ReportError(Exception):
    """One line, and the status the command ends with."""

    status = 1


class NoDataError(ReportError):
    """The exporter's metrics are there, and none is about what was asked for."""

    status = 3


class SeveralError(NoDataError):
    """Several things are called so: nothing is known of one."""

    status = 2


class UnreachableError(ReportError):
    """No connection, or what answers is not the API of a Prometheus."""

    status = 4


class UnauthorizedError(ReportError):
    """Credentials are missing, wrong, or not enough."""

    status = 5


class SlowError(ReportError):
    """The answer took too long, here or there."""

    status = 6


class RefusedError(ReportError):
    """The API answered, with an error."""

    status = 7


class NoMetricsError(ReportError):
    """This Prometheus has no metrics of the exporter in the range, or nothing that its recording rules made."""

    status = 8
