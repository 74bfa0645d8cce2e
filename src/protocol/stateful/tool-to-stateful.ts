import { createHash } from 'node:crypto';
import { editObject } from '../edit-object.ts';
import { field, type Range, stringValue } from '../fields.ts';

/**
 * Whether the tool's output is wrapped for stateful clients: their revisions want `"type":"object"` at the root of
 * `outputSchema`. Depends on the schema alone, so that a tool's results are wrapped always or never.
 */
export function wrapsOutput(tool: Buffer): boolean {
  const schema = outputSchema(tool);
  return schema !== null && stringValue(tool, field(tool, schema.start, schema.end, 'type')) !== 'object';
}

/** A stateless server's tool for stateful clients; the same buffer when nothing has to change. */
export function toolToStateful(tool: Buffer): Buffer {
  const schema = outputSchema(tool);
  if (schema === null || !wrapsOutput(tool)) return tool;
  const wrapped = Buffer.concat([
    Buffer.from('{"type":"object","properties":{"result":'),
    anchored(tool, schema),
    Buffer.from('},"required":["result"]}'),
  ]);
  return editObject(tool, { start: 0, end: tool.length }, [['outputSchema', wrapped]]);
}

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
