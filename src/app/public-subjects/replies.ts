import type { GatewayError } from '../../model/gateway-error.ts';
import { elements, field, type Range, stringValue } from '../../protocol/fields.ts';
import type { ServerError } from '../embedding/server-error.ts';

/**
 * Replies on the public subjects, in the format of the seeds (S0.7, S0.8): a flat `result` or `error`. In addition, `mcp` is
 * the server's complete result, byte for byte; `outcome` is one of four words; `failure` is the reason if that is not RESULT.
 * Always JSON (S0.9).
 */
export function toolReply(result: Buffer): Buffer {
  const text = texts(result).join('\n');
  const failed = field(result, 0, result.length, 'isError');
  const isError = failed !== null && result.toString('latin1', failed.start, failed.end) === 'true';
  const structured = field(result, 0, result.length, 'structuredContent');
  const given = structured === null ? 'null' : slice(result, structured);
  const flat = isError
    ? `"error":${JSON.stringify(text === '' ? 'the tool failed and did not say why' : text)}`
    : `"result":${given === 'null' ? JSON.stringify(text) : given}`;
  return Buffer.concat([Buffer.from(`{${flat},"outcome":"RESULT","mcp":`), result, CLOSE]);
}

/** `tools`: as their server describes them, from all pages. */
export function listReply(tools: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [Buffer.from('{"tools":[')];
  for (const [at, tool] of tools.entries()) parts.push(...(at === 0 ? [tool] : [COMMA, tool]));
  parts.push(Buffer.from('],"outcome":"RESULT"}'));
  return Buffer.concat(parts);
}

export function serverErrorReply(error: ServerError, isList: boolean): Buffer {
  const head = isList ? '{"tools":[],' : '{';
  return Buffer.from(`${head}"error":${JSON.stringify(error.message)},"outcome":"RESULT","mcp_error":${error.raw}}`);
}

export function failureReply(error: GatewayError, isList: boolean): Buffer {
  const { rpcCode, code, data, forCallers } = error;
  const failure = { code: rpcCode, name: code, ...data };
  const list = isList ? { tools: [] } : {};
  return Buffer.from(JSON.stringify({ ...list, error: forCallers, outcome: error.outcome, failure }));
}

const CLOSE = Buffer.from('}');
const COMMA = Buffer.from(',');

function texts(result: Buffer): string[] {
  const content = field(result, 0, result.length, 'content');
  if (content === null) return [];
  const found: string[] = [];
  for (const { start, end } of elements(result, content.start, content.end)) {
    if (stringValue(result, field(result, start, end, 'type')) !== 'text') continue;
    found.push(stringValue(result, field(result, start, end, 'text')) ?? '');
  }
  return found;
}

function slice(bytes: Buffer, { start, end }: Range): string {
  return bytes.toString('utf8', start, end);
}
