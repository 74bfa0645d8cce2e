import type { Message } from '../../model/message.ts';
import { bodyField, bodyString } from '../../protocol/body.ts';
import type { StatelessInbound } from '../../protocol/classify.ts';
import { request } from '../../protocol/compose.ts';
import { elements, field, stringValue, text } from '../../protocol/fields.ts';
import { encodeHeaderValue, type HeaderParam, paramHeaders, scanHeaderParams } from '../../protocol/headers.ts';
import { nameMember } from '../../protocol/methods.ts';

/**
 * The headers that 2026-07-28 requires beside a body over HTTP, for a client whose wire has none. Learns from the lists
 * that pass through which parameters of a tool have to be repeated.
 */
export class BridgeHeaders {
  readonly #declared = new Map<string, readonly HeaderParam[]>();

  of(inbound: StatelessInbound): string[] {
    const { message, revision } = inbound;
    const { method } = message;
    const headers = ['Mcp-Protocol-Version', revision, 'Mcp-Method', method];
    const member = nameMember(method);
    const name = member === null ? null : bodyString(message, member);
    if (name === null) return headers;
    headers.push('Mcp-Name', encodeHeaderValue(name));
    const declared = method === 'tools/call' ? this.#declared.get(name) : undefined;
    if (declared !== undefined) {
      headers.push(...paramHeaders(declared, message.bytes, bodyField(message, 'arguments')));
    }
    return headers;
  }

  /** Reads the declarations in the answer to a `tools/list`. */
  learn(answer: Message): void {
    if (answer.kind !== 'result' || !answer.bytes.includes('x-mcp-header')) return;
    const { bytes } = answer;
    const tools = bodyField(answer, 'tools');
    if (tools === null) return;
    for (const { start, end } of elements(bytes, tools.start, tools.end)) {
      const name = stringValue(bytes, field(bytes, start, end, 'name'));
      const params = scanHeaderParams(bytes.subarray(start, end));
      if (name !== null && params.ok) this.#declared.set(name, params.declared);
    }
  }
}

/** The request for a page of the tools that the caller sees; `cursor` is null for the first page. */
export function toolsListOf(call: StatelessInbound, cursor: string | null): StatelessInbound {
  const { bytes, id } = call.message;
  const meta = text(bytes, bodyField(call.message, '_meta')!);
  const from = cursor === null ? '' : `"cursor":${JSON.stringify(cursor)},`;
  return { ...call, message: request('tools/list', id, `{${from}"_meta":${meta}}`, 'stateless') };
}
