import type { Catalog } from '../catalog/catalog.ts';
import { appLinkEdits, contentEdits, type ExposedUri } from '../catalog/exposed-uris.ts';
import { answer, type Outcome } from '../model/outcome.ts';
import { inPlaceOf } from '../model/passed-on.ts';
import { elements, field, type Range } from '../protocol/fields.ts';
import { type Edit, spliceMessage } from '../protocol/splice.ts';

/**
 * The result of a tool call, a prompt or a task of `server` with its resources under the URIs that clients of the aggregate know
 * them by. Most results name none that is called something else here; those are not looked into.
 */
export function exposedResult(outcome: Outcome, server: string, catalog: Catalog, method: string): Outcome {
  if (outcome.kind !== 'answer' || outcome.message.kind !== 'result') return outcome;
  const { message } = outcome;
  const { bytes, bodyStart, bodyEnd } = message;
  if (!catalog.mayRename(server, bytes)) return outcome;
  const exposed: ExposedUri = (uri) => catalog.exposedUri(server, uri);
  const edits = resultEdits(bytes, { start: bodyStart, end: bodyEnd }, server, exposed);
  // What a task of 2026-07-28 has ended with.
  const inner = method === 'tasks/get' ? field(bytes, bodyStart, bodyEnd, 'result') : null;
  if (inner !== null) edits.push(...resultEdits(bytes, inner, server, exposed));
  if (edits.length === 0) return outcome;
  return answer(inPlaceOf(message, spliceMessage(message, edits), method));
}

function resultEdits(bytes: Buffer, result: Range, server: string, exposed: ExposedUri): Edit[] {
  const { start, end } = result;
  const edits = [
    ...appLinkEdits(bytes, result, server),
    ...contentEdits(bytes, field(bytes, start, end, 'content'), exposed),
  ];
  const messages = field(bytes, start, end, 'messages');
  if (messages !== null) {
    for (const message of elements(bytes, messages.start, messages.end)) {
      edits.push(...contentEdits(bytes, field(bytes, message.start, message.end, 'content'), exposed));
    }
  }
  return edits;
}
