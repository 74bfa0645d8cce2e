import { CLIENT_KEYS } from '../client.ts';
import { DEFAULTS } from '../defaults.ts';
import { withOurReferences } from '../document/expand.ts';
import { scalar, withTexts } from '../document/node.ts';
import { checkShape } from '../document/shape.ts';
import type { RawDefinition } from '../files/containers.ts';
import { serverJsonSchema } from '../schema-json.ts';
import { FieldReader, type ReadingContext } from './field-reader.ts';
import { flattened } from './flattened.ts';
import { readTimeout } from './read-server.ts';
import { serverType } from './server-type.ts';

const VARIABLES = new Set(['env', 'environment', 'envs']);

/**
 * Converts a definition of a client's file to an equivalent one of ours: without unknown keys, with our units and references.
 * Warns of the keys it omits, and returns null if it omits the whole definition. Reads no file and no variable.
 */
export function toOwnFormat(definition: RawDefinition, context: ReadingContext): RawDefinition | null {
  const { node, path, nameSpan } = definition;
  if (node.kind !== 'object') return definition;
  const { source, problems, client } = context;
  const schema = serverJsonSchema();
  const fields = new FieldReader(context, flattened(node), path);
  const types: ReturnType<typeof serverType>[] = [];
  // Discards the errors: reading the converted definition reports them again.
  problems.capture(() => {
    checkShape(fields.node, schema, path, { source, problems, strict: false, ignored: CLIENT_KEYS });
    types.push(serverType(fields, true));
  });
  const [type] = types;
  if (type?.type === 'none') {
    problems.warn('TL1414', source, nameSpan, `${path} ${type.why}, and is left out`);
    return null;
  }
  const members = fields.node.members.flatMap((member) => {
    const { key, keySpan, value } = member;
    if (key === 'timeout' && value.kind === 'number') {
      const ms = readTimeout(fields, DEFAULTS.timeoutMs);
      return [{ key: 'timeoutMs', keySpan, value: scalar(ms, value.span, String(ms)) }];
    }
    if (!Object.hasOwn(schema.properties ?? {}, key)) return [];
    const ours = (text: string): string => withOurReferences(text, client.id, VARIABLES.has(key));
    return [{ ...member, value: withTexts(value, ours) }];
  });
  const url = fields.first('url');
  if (type?.type === 'sse' && url !== null && fields.first('type', 'transport') === null) {
    members.push({ key: 'type', keySpan: url.node.span, value: scalar('sse', url.node.span, 'sse') });
  }
  return { ...definition, node: { kind: 'object', span: node.span, members } };
}
