import { createHash } from 'node:crypto';
import { editObject } from '../edit-object.ts';
import { entries, field, type Range, stringValue } from '../fields.ts';
import { type Edit, splice } from '../splice.ts';

/**
 * Whether the tool's output is wrapped for stateful clients: their revisions want `"type":"object"` at the root of
 * `outputSchema`. Depends on the schema alone, so that a tool's results are wrapped always or never.
 */
export function wrapsOutput(tool: Buffer): boolean {
  const schema = outputSchema(tool);
  return schema !== null && stringValue(tool, field(tool, schema.start, schema.end, 'type')) !== 'object';
}

/**
 * A stateless server's tool for stateful clients, whose revisions want objects as `properties`; the same buffer when
 * nothing has to change.
 */
export function toolToStateful(tool: Buffer): Buffer {
  const input = field(tool, 0, tool.length, 'inputSchema');
  const output = outputSchema(tool);
  const edits = input === null ? [] : booleans(tool, input);
  if (output !== null && wrapsOutput(tool)) edits.push({ ...output, insert: wrapped(tool, output) });
  else if (output !== null) edits.push(...booleans(tool, output));
  edits.sort((a, b) => a.start - b.start);
  return edits.length === 0 ? tool : splice(tool, edits);
}

function wrapped(tool: Buffer, schema: Range): Buffer {
  return Buffer.concat([
    Buffer.from('{"type":"object","properties":{"result":'),
    anchored(tool, schema),
    Buffer.from('},"required":["result"]}'),
  ]);
}

/** Puts the object that means the same in place of each property that is `true` or `false`. */
function booleans(tool: Buffer, schema: Range): Edit[] {
  const edits: Edit[] = [];
  const properties = field(tool, schema.start, schema.end, 'properties');
  if (properties === null) return edits;
  for (const { valueStart: start, valueEnd: end } of entries(tool, properties.start, properties.end)) {
    const first = tool[start];
    if (first === 0x74 || first === 0x66) edits.push({ start, end, insert: first === 0x74 ? ANYTHING : NOTHING });
  }
  return edits;
}

const ANYTHING = Buffer.from('{}');
const NOTHING = Buffer.from('{"not":{}}');

function outputSchema(tool: Buffer): Range | null {
  return tool.includes('outputSchema') ? field(tool, 0, tool.length, 'outputSchema') : null;
}

/** References into the schema (`#/…`) go on meaning this schema once it is no longer the root: it gets an id. */
function anchored(tool: Buffer, schema: Range): Buffer {
  const own = tool.subarray(schema.start, schema.end);
  if (own[0] !== 0x7b || !own.includes('$ref') || field(tool, schema.start, schema.end, '$id') !== null) return own;
  const digest = createHash('sha256').update(own).digest('hex').slice(0, 16);
  return editObject(tool, schema, [['$id', `"urn:trunkline:output:${digest}"`]]);
}
