import type { Schema } from './operation.ts';
import { count, list, nullable, object, text } from './schema-parts.ts';

const LIST: Schema = { enum: ['tools', 'prompts', 'resourceTemplates', 'instructions'] };
const POLICY: Schema = { enum: ['off', 'warn', 'hold', 'block'] };
const SEVERITY: Schema = {
  enum: ['breaking', 'behaviour', 'wording'],
  description: 'Whether calls that were valid can fail now, or only more than words changed, or words alone.',
};

const FIELD = object({
  pointer: { type: 'string', description: 'JSON Pointer into the definition; empty for all of it.' },
  before: nullable({ type: 'string', description: 'JSON text; null where the field was absent.' }),
  after: nullable({ type: 'string', description: 'JSON text; null where the field is absent.' }),
  words: nullable(list(object({ kind: { enum: ['same', 'removed', 'added'] }, text }))),
});

const WAITING = object({
  list: LIST,
  key: { type: 'string', description: 'Name or URI template; empty for instructions.' },
  change: { enum: ['added', 'changed', 'removed', 'blocked'] },
  digest: nullable({ type: 'string', description: 'Of what the server offers now; null where it is gone.' }),
  before: nullable({ type: 'string', description: 'Of what was approved last.' }),
  severity: SEVERITY,
  reasons: list(text),
  offered: {
    enum: ['present', 'approved', 'nothing'],
    description: 'What clients are offered meanwhile: what the server says now, what was approved, or nothing.',
  },
  fields: list(FIELD),
});

const FINDING = object({
  list: { enum: ['tools', 'prompts', 'resourceTemplates', 'instructions', 'resources'] },
  key: text,
  kind: {
    enum: [
      'hidden',
      'instruction',
      'secret_place',
      'markup',
      'lookalike',
      'encoded',
      'other_server',
      'same_name',
      'oversized',
    ],
  },
  grave: { type: 'boolean', description: 'Hardly ever innocent.' },
  pointer: text,
  excerpt: text,
});

export const DRIFT_REPORT = object({
  server: text,
  policy: POLICY,
  trustedAt: nullable({ type: 'number', description: 'First use, in milliseconds since 1970.' }),
  pinned: count,
  listed: { type: 'boolean', description: 'Whether it is known what the server offers now.' },
  waiting: list(WAITING),
  findings: list(FINDING),
  problem: nullable({ type: 'string', description: 'Why pins are not saved.' }),
});

export const LIST_OF_DRIFT = object({ servers: list(DRIFT_REPORT) });

/** In the status of a server. */
export const DRIFT_SUMMARY = object(
  {
    policy: POLICY,
    waiting: count,
    withheld: count,
    findings: count,
    problem: nullable(text),
  },
  'How the server stands to what was approved of it; see `getDrift`.',
);

export const DRIFT_HISTORY = object({
  events: list(
    object({
      id: text,
      at: { type: 'string', format: 'date-time' },
      kind: { enum: ['trusted', 'added', 'changed', 'removed', 'approved', 'blocked'] },
      name: nullable(object({ list: LIST, key: text })),
      digest: nullable(text),
      before: nullable(text),
      severity: nullable(SEVERITY),
      by: nullable(text),
      text,
    }),
  ),
});
