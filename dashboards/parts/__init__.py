"""What the dashboards share: queries, panels, tables, variables, links, states, prices."""
