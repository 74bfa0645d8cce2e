import { appScriptEdits } from '../../catalog/app-script.ts';
import type { Catalog } from '../../catalog/catalog.ts';
import { appLinkEdits, contentEdits, type ExposedUri, uriEdit } from '../../catalog/exposed-uris.ts';
import type { ResourceTarget } from '../../catalog/resource-table.ts';
import type { Exchange } from '../../model/exchange.ts';
import { answer, type Outcome, replaceAnswer } from '../../model/outcome.ts';
import { bodyField } from '../../protocol/body.ts';
import { elements, field, fields, type Range } from '../../protocol/fields.ts';
import { type Edit, spliceMessage } from '../../protocol/splice.ts';
import type { Catalogs } from '../lists/catalogs.ts';
import { isResult } from '../own-results.ts';

/** Apps of one result that get the script, which names all tools of its server; a read returns one. */
const MAX_APPS = 4;
/** Up to this size it is cheaper to search a result for `resource` than to parse it. */
const SEARCHED_BYTES = 8 * 1024;

/** The result of a tool call, prompt or task of `server`, with exposed URIs of its resources. */
export function exposedResult(
  outcome: Outcome,
  server: string,
  { request: { method }, client }: Exchange,
  catalogs: Catalogs,
): Outcome {
  if (!isResult(outcome)) return outcome;
  const { message } = outcome;
  const { bytes, bodyStart, bodyEnd } = message;
  if (bytes.length <= SEARCHED_BYTES && !bytes.includes('resource')) return outcome;
  const catalog = catalogs.of(client);
  const exposed: ExposedUri = (uri) => catalog.exposedUri(server, uri);
  const edits = resultEdits(bytes, { start: bodyStart, end: bodyEnd }, server, exposed);
  // The result of a task of 2026-07-28.
  const inner = method === 'tasks/get' ? field(bytes, bodyStart, bodyEnd, 'result') : null;
  if (inner !== null) edits.push(...resultEdits(bytes, inner, server, exposed));
  if (edits.length === 0) return outcome;
  return answer(replaceAnswer(message, spliceMessage(message, edits), method));
}

function resultEdits(bytes: Buffer, { start, end }: Range, server: string, exposed: ExposedUri): Edit[] {
  const [meta = null, content = null, messages = null] = fields(bytes, start, end, ['_meta', 'content', 'messages']);
  const edits = [...appLinkEdits(bytes, meta, server), ...contentEdits(bytes, content, exposed)];
  if (messages === null) return edits;
  for (const message of elements(bytes, messages.start, messages.end)) {
    edits.push(...contentEdits(bytes, field(bytes, message.start, message.end, 'content'), exposed));
  }
  return edits;
}

/** The contents of a read under exposed URIs: the requested one, and others of the server. */
export function exposedContents(outcome: Outcome, target: ResourceTarget, catalog: Catalog): Outcome {
  const { server, uri: own, exposed } = target;
  if (!isResult(outcome)) return outcome;
  const { message } = outcome;
  const { bytes } = message;
  const contents = bodyField(message, 'contents');
  if (contents === null) return outcome;
  const edits: Edit[] = [];
  const tools = () => catalog.toolsOf(server);
  let apps = 0;
  for (const content of elements(bytes, contents.start, contents.end)) {
    const uri = field(bytes, content.start, content.end, 'uri');
    edits.push(...uriEdit(bytes, uri, (named) => (named === own ? exposed : catalog.exposedUri(server, named))));
    const script = apps < MAX_APPS ? appScriptEdits(bytes, content, server, tools) : [];
    apps += script.length;
    edits.push(...script);
  }
  return answer(spliceMessage(message, edits));
}
