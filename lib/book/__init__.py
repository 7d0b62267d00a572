"""From a chapter's source to a page: parameters, execution, claims, figures, site.

``lib.book.session`` and ``lib.plot`` are what chapters use; the other modules
are the build. Nothing is imported here, so that papermill's entry point stays light.
"""
