// Prints the panels given on standard input as Grafana would: its own transformations, overrides, units and mappings.
//
// In: [{panel, series: {refId: [{labels, legend, points: [[seconds, value], ...]}]}}, ...]
// Out: for each panel its rows, [{title: [raw, text], ...}, ...]; of a panel that is no table `name` and `value`.
"use strict";

// What a browser has and Node 20 has not.
globalThis.navigator ??= { language: "en-US", languages: ["en-US"] };

const { firstValueFrom } = require("rxjs");
const grafana = require("@grafana/data");

globalThis.window ??= globalThis; // not before: a library takes that for a browser

const theme = grafana.createTheme();
const asWritten = (text) => text;

grafana.standardTransformersRegistry.setInit(() =>
  [...new Set(Object.values(grafana.standardTransformers))].map((transformation) => ({
    id: transformation.id,
    name: transformation.name,
    transformation: async () => transformation,
    editor: () => null,
  })),
);

// The properties that an override may set are known by their editors, which are in Grafana itself.
const property = (id) => ({
  id,
  path: id.replace(/^custom\./, ""),
  isCustom: id.startsWith("custom."),
  name: id,
  editor: () => null,
  override: () => null,
  process: grafana.identityOverrideProcessor,
  shouldApply: () => true,
  settings: {},
});

function registry(panel) {
  const { defaults, overrides = [] } = panel.fieldConfig;
  const set = overrides.flatMap((override) => override.properties.map((each) => each.id));
  const ids = new Set([...Object.keys(defaults).filter((id) => id !== "custom"), ...set]);
  return new grafana.FieldConfigOptionsRegistry(() => [...ids].map(property));
}

const field = (name, type, values, more = {}) => ({ name, type, values, config: {}, ...more });

/** As Grafana's data source makes them of queries in the format of a table: a frame of each query that has an answer. */
function tables(panel, series) {
  const single = panel.targets.length === 1;
  return Object.entries(series).map(([refId, rows]) => {
    const labels = [...new Set(rows.flatMap((row) => Object.keys(row.labels)))].sort();
    const last = rows.map((row) => row.points.at(-1));
    const fields = rows.length === 0 ? [] : [
      field("Time", grafana.FieldType.time, last.map(([time]) => time * 1000)),
      ...labels.map((label) => field(label, grafana.FieldType.string, rows.map((row) => row.labels[label] ?? ""))),
      field(single ? "Value" : `Value #${refId}`, grafana.FieldType.number, last.map(([, value]) => value)),
    ];
    return { refId, fields, length: rows.length };
  });
}

function lines(series) {
  return Object.entries(series).flatMap(([refId, rows]) =>
    rows.map((row) => ({
      refId,
      length: row.points.length,
      fields: [
        field("Time", grafana.FieldType.time, row.points.map(([time]) => time * 1000)),
        field("Value", grafana.FieldType.number, row.points.map(([, value]) => value), {
          labels: row.labels,
          config: { displayNameFromDS: row.legend },
        }),
      ],
    })),
  );
}

async function printed({ panel, series }) {
  const isTable = panel.type === "table";
  const frames = isTable ? tables(panel, series) : lines(series);
  const context = { interpolate: asWritten };
  const transformed = await firstValueFrom(grafana.transformDataFrame(panel.transformations ?? [], frames, context));
  const shown = grafana.applyFieldOverrides({
    data: transformed,
    fieldConfig: { overrides: [], ...panel.fieldConfig },
    fieldConfigRegistry: registry(panel),
    replaceVariables: asWritten,
    theme,
    timeZone: "utc",
  });
  return isTable ? cells(shown) : lasts(panel, shown);
}

const text = (of, value) => grafana.formattedValueToString(of.display(value));

function cells([frame]) {
  return Array.from({ length: frame?.length ?? 0 }, (_, row) =>
    Object.fromEntries(
      frame.fields.map((of) => {
        const value = of.values[row];
        return [grafana.getFieldDisplayName(of, frame), [String(value ?? ""), text(of, value)]];
      }),
    ),
  );
}

function lasts(panel, frames) {
  const byName = panel.options.textMode === "name";
  return frames.flatMap((frame) =>
    frame.fields
      .filter((of) => of.type === grafana.FieldType.number)
      .map((of) => {
        const { lastNotNull } = grafana.reduceField({ field: of, reducers: ["lastNotNull"] });
        const name = grafana.getFieldDisplayName(of, frame, frames);
        return {
          name: [of.config.displayNameFromDS ?? name, name],
          value: [String(lastNotNull), byName ? name : text(of, lastNotNull)],
        };
      }),
  );
}

async function main() {
  let input = "";
  for await (const chunk of process.stdin) input += chunk;
  const found = [];
  for (const each of JSON.parse(input)) found.push(await printed(each));
  process.stdout.write(JSON.stringify(found));
}

main();
