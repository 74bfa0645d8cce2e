import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as stateless from '@modelcontextprotocol/core';
import * as stateful from '@modelcontextprotocol/sdk/types.js';
import type { Era } from '../model/message.ts';
import type { ListKind } from '../model/server-catalog.ts';
import { faultOfItem, portabilityFault, sanitizePage } from './list-page.ts';
import { listOf } from './methods.ts';
import { toolToStateful } from './stateful/to-stateful.ts';

const ICONS = [{ src: 'https://x/i', mimeType: 'image/png', sizes: ['48x48'], theme: 'dark' }];
const COMMON = { name: 'n', title: 't', description: 'd', icons: ICONS, _meta: { a: 1 } };
const SCHEMA = { $schema: 's', type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
const OF_RESOURCES = {
  ...COMMON,
  mimeType: 'm',
  annotations: { audience: ['user'], priority: 0.5, lastModified: '2025-01-12T15:00:58Z' },
};
/** Every member that the specification names. */
const FULL: Readonly<Record<ListKind, object>> = {
  tools: {
    ...COMMON,
    inputSchema: SCHEMA,
    outputSchema: SCHEMA,
    annotations: { title: 't', readOnlyHint: true, destructiveHint: true, idempotentHint: true, openWorldHint: true },
    execution: { taskSupport: 'optional' },
  },
  prompts: { ...COMMON, arguments: [{ name: 'a', title: 't', description: 'd', required: true }] },
  resources: { ...OF_RESOURCES, uri: 'a:b', size: 1 },
  resourceTemplates: { ...OF_RESOURCES, uriTemplate: 'a:{b}' },
};
const RESULT_SCHEMAS = {
  tools: 'ListToolsResultSchema',
  prompts: 'ListPromptsResultSchema',
  resources: 'ListResourcesResultSchema',
  resourceTemplates: 'ListResourceTemplatesResultSchema',
} as const;
/** JSON texts to put in the place of a member; null removes it. */
const OTHERS = [
  'null',
  '5',
  '-1',
  '1.5',
  '1E400',
  '"x"',
  'true',
  'false',
  '[]',
  '{}',
  '[5]',
  '["x"]',
  '[null]',
  '[{}]',
];
/** Members that the specification restricts and the official clients do not check. */
const CHECKED_BY_NO_CLIENT = /^(arguments\.0\.title|inputSchema\.\$schema|outputSchema\.\$schema)$/;
/** Values that are no JSON Schema: clients of one SDK take them, those of the other refuse them. */
const NO_SCHEMA = /^(inputSchema\.properties\.a$|outputSchema\.(properties|required))/;

function* paths(value: unknown, path: readonly string[] = []): Generator<readonly string[]> {
  if (path.length > 0) yield path;
  if (typeof value !== 'object' || value === null) return;
  for (const [key, member] of Object.entries(value)) yield* paths(member, [...path, key]);
}

/** The item with the member's JSON text changed, byte for byte as given. */
function changed(item: object, path: readonly string[], json: string | null): string {
  const copy = JSON.parse(JSON.stringify(item)) as Record<string, unknown>;
  let at = copy;
  for (const key of path.slice(0, -1)) at = at[key] as Record<string, unknown>;
  if (json === null) delete at[path.at(-1)!];
  else at[path.at(-1)!] = '@@@';
  return JSON.stringify(copy).replace('"@@@"', json!);
}

function taken(era: Era, kind: ListKind, item: string): boolean {
  const schemas = era === 'stateful' ? stateful : stateless;
  return schemas[RESULT_SCHEMAS[kind]].safeParse({ [listOf(kind).resultKey]: [JSON.parse(item)] }).success;
}

describe('every member of every kind of item, with every kind of value', () => {
  for (const kind of Object.keys(FULL) as ListKind[]) {
    test(`${kind}: the official clients of both eras take every kept item, and an item that they take is kept`, () => {
      const list = listOf(kind);
      let refused = 0;
      for (const path of paths(FULL[kind])) {
        const place = path.join('.');
        for (const json of [null, ...OTHERS]) {
          const item = changed(FULL[kind], path, json);
          for (const era of ['stateful', 'stateless'] as const) {
            const bytes = Buffer.from(item);
            const huge = portabilityFault(bytes);
            const fault = faultOfItem(list, bytes, era) || huge;
            const what = `${era} ${place} ${json}: ${fault}`;
            if (fault === '') {
              assert.ok(taken(era, kind, item), what);
              const translated = kind === 'tools' ? toolToStateful(Buffer.from(item)).toString() : item;
              assert.ok(
                era === 'stateful' || taken('stateful', kind, translated),
                `${what}, for clients of the other era`,
              );
            } else {
              refused++;
              assert.ok(fault.length < 120, what);
              if (CHECKED_BY_NO_CLIENT.test(place) || NO_SCHEMA.test(place) || huge !== '') continue;
              assert.ok(!taken(era, kind, item), what);
            }
          }
        }
      }
      assert.ok(refused > 100, `${refused} refused`);
    });
  }

  test('the required members are those that the specification requires in all revisions', () => {
    for (const [kind, required] of [
      ['tools', ['name', 'inputSchema', 'inputSchema.type']],
      ['prompts', ['name', 'arguments.0.name', 'icons.0.src']],
      ['resources', ['uri', 'name']],
      ['resourceTemplates', ['uriTemplate', 'name']],
    ] as const) {
      for (const place of required) {
        const item = changed(FULL[kind], place.split('.'), null);
        for (const era of ['stateful', 'stateless'] as const) {
          const { page, invalid } = sanitizePage(listOf(kind), Buffer.from(`{"${kind}":[${item}]}`), era);
          assert.equal(page.toString(), `{"${kind}":[]}`, `${kind} ${place}`);
          assert.match(invalid[0]!.reason, /^"[^"]+" is missing$/);
          assert.ok(invalid[0]!.reason.includes(place.replace('.0', '[0]')), invalid[0]!.reason);
        }
      }
    }
  });

  test('numbers that JavaScript reads as infinite are kept where no client reads them', () => {
    const tool =
      '{"name":"t","inputSchema":{"type":"object","properties":{"n":{"maximum":1E400}}},"_meta":{"n":-1e999}}';
    const page = Buffer.from(`{"tools":[${tool}],"ttlMs":1E400}`);
    for (const era of ['stateful', 'stateless'] as const)
      assert.equal(sanitizePage(listOf('tools'), page, era).page, page);
  });
});
