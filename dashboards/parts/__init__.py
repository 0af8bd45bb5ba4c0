"""Parts that the dashboards have in common: queries, panels, tables, variables, links, states, prices."""
