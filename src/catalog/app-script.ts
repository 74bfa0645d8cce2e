import { TOOL_NAME_DELIMITER } from '../model/names.ts';
import { PARENT_PROXY_SCRIPT } from '../model/parent-proxy.ts';
import { field, fields, type Range, stringValue } from '../protocol/fields.ts';
import type { Edit } from '../protocol/splice.ts';
import type { ExposedItem } from './exposed-items.ts';

const APP_TYPE = /^text\/html\s*;\s*profile="?mcp-app"?\s*(?:;|$)/i;
/** What may precede the root element of a document, in plain HTML and inside a JSON string; always matches. */
const PROLOGUE =
  /^(?:\xef\xbb\xbf|\\ufeff)?(?:\s|\\[nrtf]|(?:<|\\u003c)!--[\s\S]*?--(?:>|\\u003e))*(?:(?:<|\\u003c)!doctype[\s\S]*?(?:>|\\u003e))?/i;
/** The number of bytes that are searched for the prologue. */
const PROLOGUE_BYTES = 64 * 1024;

/**
 * The edit that inserts a script before the document of an MCP App. The app knows only its tools' own names; the script
 * translates names and URIs for calls through the aggregate (decision 056). No edit for other contents.
 */
export function appScriptEdits(
  bytes: Buffer,
  content: Range,
  server: string,
  tools: () => readonly ExposedItem[],
): Edit[] {
  if (!APP_TYPE.test(stringValue(bytes, field(bytes, content.start, content.end, 'mimeType')) ?? '')) return [];
  const [text, blob] = fields(bytes, content.start, content.end, ['text', 'blob']);
  const script = scriptOf(server, tools());
  if (text != null && bytes[text.start] === 0x22) {
    const at = text.start + 1 + prologueLength(bytes, text.start + 1, text.end - 1);
    return [{ start: at, end: at, insert: JSON.stringify(script).slice(1, -1) }];
  }
  const encoded = stringValue(bytes, blob ?? null);
  if (blob == null || encoded === null) return [];
  const html = Buffer.from(encoded, 'base64');
  const at = prologueLength(html, 0, html.length);
  const both = Buffer.concat([html.subarray(0, at), Buffer.from(script), html.subarray(at)]);
  return [{ ...blob, insert: `"${both.toString('base64')}"` }];
}

function prologueLength(html: Buffer, start: number, end: number): number {
  return PROLOGUE.exec(html.toString('latin1', start, Math.min(end, start + PROLOGUE_BYTES)))![0].length;
}

function scriptOf(server: string, tools: readonly ExposedItem[]): string {
  const names = JSON.stringify(tools.map(({ item, exposed }) => [item.key, exposed])).replaceAll('<', '\\u003c');
  return `<script>${SCRIPT}("${server}","${server}${TOOL_NAME_DELIMITER}",${names})</script>`;
}

/** Replaces `window.parent`, to translate messages of the app, and messages from the real parent before the app gets them. */
const SCRIPT = `((server, prefix, names) => {
  const real = window.parent;
  if (real === window) return;
  const exposed = new Map(names);
  const own = new Map(names.map(([name, exposed]) => [exposed, name]));
  const tool = (name) => exposed.get(name) ?? (own.has(name) ? name : prefix + name);
  const spaces = ["ui://", "skill://"].map((scheme) => [scheme, scheme + "trunkline/"]).concat([["", "trunkline://"]]);
  const spaceOf = (uri) => spaces.find(([scheme]) => uri.startsWith(scheme));
  const wrap = (uri) => {
    const [scheme, space] = spaceOf(uri);
    return uri.startsWith(space) ? uri : space + server + "/" + uri.slice(scheme.length);
  };
  const unwrap = (uri) => {
    const [scheme, space] = spaceOf(uri);
    return uri.startsWith(space + server + "/") ? scheme + uri.slice(space.length + server.length + 1) : uri;
  };
  const outward = (message) => {
    const { method, params } = message ?? {};
    if (method === "tools/call" && typeof params?.name === "string")
      return { ...message, params: { ...params, name: tool(params.name) } };
    if (method === "resources/read" && typeof params?.uri === "string")
      return { ...message, params: { ...params, uri: wrap(params.uri) } };
    return message;
  };
  const post = (message, ...rest) => real.postMessage(outward(message), ...rest);
  ${PARENT_PROXY_SCRIPT}
  const shown = (context) => {
    const tool = context?.toolInfo?.tool;
    if (own.has(tool?.name)) tool.name = own.get(tool.name);
  };
  addEventListener("message", (event) => {
    if (source.get.call(event) !== real) return;
    const { data } = event;
    shown(data?.result?.hostContext);
    if (data?.method === "ui/notifications/host-context-changed") shown(data.params);
    const contents = data?.result?.contents;
    if (!Array.isArray(contents)) return;
    for (const content of contents) if (typeof content?.uri === "string") content.uri = unwrap(content.uri);
  });
})`;
