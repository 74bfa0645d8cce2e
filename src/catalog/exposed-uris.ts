import { elements, field, fieldAt, fields, type Range, stringValue } from '../protocol/fields.ts';
import type { Edit } from '../protocol/splice.ts';

export type ExposedUri = (uri: string) => string;

/** Edits that expose `_meta.ui.resourceUri` and the older `_meta["ui/resourceUri"]` of a tool or result (MCP Apps). */
export function appLinkEdits(bytes: Buffer, meta: Range | null, server: string): Edit[] {
  if (meta === null) return [];
  const exposed: ExposedUri = (uri) => (isAlwaysWrapped(uri) ? wrapUri(server, uri) : uri);
  return [['ui', 'resourceUri'], ['ui/resourceUri']].flatMap((path) =>
    uriEdit(bytes, fieldAt(bytes, meta.start, meta.end, path), exposed),
  );
}

/** Edits that expose the resource links and embedded resources in the content of a tool's result or a prompt's message. */
export function contentEdits(bytes: Buffer, content: Range | null, exposed: ExposedUri): Edit[] {
  if (content === null) return [];
  const blocks = bytes[content.start] === 0x5b ? elements(bytes, content.start, content.end) : [content];
  const edits: Edit[] = [];
  for (const { start, end } of blocks) {
    const type = stringValue(bytes, field(bytes, start, end, 'type'));
    if (type === 'resource_link') edits.push(...uriEdit(bytes, field(bytes, start, end, 'uri'), exposed));
    if (type === 'resource') edits.push(...uriEdit(bytes, fieldAt(bytes, start, end, ['resource', 'uri']), exposed));
  }
  return edits;
}

/** Returns no edit if the URI stays the same. */
export function uriEdit(bytes: Buffer, range: Range | null, exposed: ExposedUri): Edit[] {
  const own = stringValue(bytes, range);
  if (range === null || own === null) return [];
  const uri = exposed(own);
  return uri === own ? [] : [{ ...range, insert: JSON.stringify(uri) }];
}

/** Edits that wrap the URIs of skills, their files and directories in a result of SEP-2640. */
export function skillEdits(bytes: Buffer, result: Range, server: string): Edit[] {
  const [skills, skill, resources] = fields(bytes, result.start, result.end, ['skills', 'skill', 'resources']);
  const entries = [...elementsOf(bytes, skills), ...(skill == null ? [] : [skill])];
  const files = entries.flatMap(({ start, end }) => elementsOf(bytes, field(bytes, start, end, 'resources')));
  return [...entries, ...files, ...elementsOf(bytes, resources)].flatMap(({ start, end }) =>
    uriEdit(bytes, field(bytes, start, end, 'uri'), (uri) => wrapUri(server, uri)),
  );
}

function elementsOf(bytes: Buffer, list: Range | null | undefined): Range[] {
  return list == null ? [] : [...elements(bytes, list.start, list.end)];
}

/**
 * A URI or template of several servers is exposed as `trunkline://{server}/{uri}`, with the original unchanged after the
 * prefix; clients may use this form for any resource. `ui` (MCP Apps) and `skill` (SEP-2640) URIs are valid only at their own
 * server and keep their scheme: always `ui://trunkline/{server}/{rest}` (decision 056).
 */
const ANY_SCHEME = 'trunkline://';
const OWN_SCHEMES = ['ui://', 'skill://'];
const GATEWAY = 'trunkline/';

/** Whether the URI has the wrapped form, which addresses only the server that it names. */
export function isWrapped(uri: string): boolean {
  return uri.startsWith(prefixOf(ownScheme(uri)));
}

/** Whether a URI is exposed wrapped even if one server has it: `ui` and `skill` URIs, and URIs that look wrapped. */
export function isAlwaysWrapped(uri: string): boolean {
  return ownScheme(uri) !== null || isWrapped(uri);
}

export function wrapUri(server: string, uri: string): string {
  const scheme = ownScheme(uri);
  return `${prefixOf(scheme)}${server}/${uri.slice(scheme?.length ?? 0)}`;
}

export function unwrapUri(uri: string): { readonly server: string; readonly uri: string } | null {
  if (!isWrapped(uri)) return null;
  const scheme = ownScheme(uri);
  const start = prefixOf(scheme).length;
  const slash = uri.indexOf('/', start);
  return slash <= start ? null : { server: uri.slice(start, slash), uri: (scheme ?? '') + uri.slice(slash + 1) };
}

function prefixOf(scheme: string | null): string {
  return scheme === null ? ANY_SCHEME : scheme + GATEWAY;
}

function ownScheme(uri: string): string | null {
  return OWN_SCHEMES.find((scheme) => uri.startsWith(scheme)) ?? null;
}
