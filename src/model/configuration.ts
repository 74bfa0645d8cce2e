import { count, described, type Infer, isoTime, list, named, nullable, object, oneOf, text } from './schema.ts';

/** The configuration in the files compared with the one in force. Types that several modules share. No secrets. */

const PROBLEM = named(
  'ConfigurationProblem',
  object({
    code: text,
    file: described(text, 'Absolute path, or a label in angle brackets where there is no file.'),
    line: described(count, '0 where it is about the file as a whole.'),
    column: count,
    message: text,
    frame: described(text, 'The line with a marker below it; empty where there is nothing to show.'),
    fix: text,
  }),
  'As `trunkline check` prints it.',
);

const FIELD = object({
  field: text,
  before: described(nullable(text), 'JSON text; null where it was absent.'),
  after: described(nullable(text), 'JSON text; null where it is absent.'),
});
export type ConfigurationField = Infer<typeof FIELD>;

const SERVER_CHANGE = object({
  server: text,
  change: described(
    oneOf(['added', 'removed', 'restarted', 'updated']),
    '`restarted`: it needs a new connection. `updated`: it takes effect on the connections there are.',
  ),
  fields: described(list(FIELD), 'Secrets are masked: one that changes shows the same text twice.'),
});
export type ServerChange = Infer<typeof SERVER_CHANGE>;

const CHANGE = {
  servers: list(SERVER_CHANGE),
  settings: described(list(text), 'Names of the other settings that differ.'),
};

const RECORD = named(
  'ConfigurationRecord',
  object({
    at: isoTime,
    result: described(oneOf(['started', 'applied', 'refused']), '`refused`: what was in force before stays in force.'),
    version: described(count, 'In force after it.'),
    ...CHANGE,
    problems: list(PROBLEM),
  }),
);
export type ConfigurationRecord = Infer<typeof RECORD>;

const SOURCE = object({
  file: text,
  servers: described(list(object({ server: text, line: count })), 'Those that it defines.'),
});

export const CONFIGURATION = named(
  'Configuration',
  object({
    version: described(count, 'Increases with every change of the desired state.'),
    sources: list(SOURCE),
    runTime: described(list(text), 'Servers that were added at run time.'),
    problems: described(list(PROBLEM), 'Of the last reading: what of the files is not in force.'),
    warnings: list(PROBLEM),
    unread: described(list(text), 'What should run and could not be read, of files and store.'),
    history: described(list(RECORD), 'The newest first; the last 100 since the start.'),
  }),
);
export type ConfigurationView = Infer<typeof CONFIGURATION>;

export const PLAN = named(
  'ConfigurationPlan',
  object({
    problems: described(list(PROBLEM), 'With errors of the files as a whole, nothing would change.'),
    warnings: list(PROBLEM),
    ...CHANGE,
    needRestart: described(list(text), 'Those of `settings` that are in force after a restart only.'),
  }),
);
export type ConfigurationPlan = Infer<typeof PLAN>;

export const RELOADED = named(
  'Reloaded',
  object({ result: oneOf(['applied', 'unchanged', 'refused']), version: count, problems: list(PROBLEM) }),
);
export type ReloadView = Infer<typeof RELOADED>;
