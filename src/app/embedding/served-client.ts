import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { messageOf } from '../../model/thrown.ts';
import { bodyField, bodyLexeme, nameIn } from '../../protocol/body.ts';
import { errorAnswer, errorOf, failureAnswer, notification, result } from '../../protocol/compose.ts';
import { text } from '../../protocol/fields.ts';
import { isScanFailure, scanMessage } from '../../protocol/scan.ts';
import type { MemoryLink, MemoryServer } from '../../upstream/transport/memory-transport.ts';
import type { AgentClient } from './gateway-client.ts';
import { ServerError } from './server-error.ts';

/**
 * A client that a program added to the gateway's router (an A2A adapter, for example), as an MCP server in this process:
 * clients of the gateway list and call its tools (S2.33, S2.35). Arguments and results pass as text.
 */
export class ServedClient {
  readonly #client: AgentClient;
  readonly #links = new Set<MemoryLink>();

  constructor(client: AgentClient) {
    this.#client = client;
  }

  /** Opens a connection of the gateway to the client. */
  readonly connect = (link: MemoryLink): MemoryServer => {
    const calls = new Map<string, AbortController>();
    this.#links.add(link);
    return {
      receive: (bytes) => {
        const message = scanMessage(bytes, 'stateful', 'relaxed');
        if (isScanFailure(message)) return;
        if (message.kind === 'request') void this.#answer(message, calls).then(({ bytes: all }) => link.deliver(all));
        else if (message.method === 'notifications/cancelled')
          calls.get(bodyLexeme(message, 'requestId') ?? '')?.abort();
      },
      close: () => {
        this.#links.delete(link);
        for (const call of calls.values()) call.abort();
      },
    };
  };

  /** Announces that the tools of the client may have changed. */
  changed(): void {
    const { bytes } = notification('notifications/tools/list_changed', null, 'stateful');
    for (const link of this.#links) link.deliver(bytes);
  }

  async #answer(request: Message, calls: Map<string, AbortController>): Promise<Message> {
    const { id } = request;
    const call = new AbortController();
    calls.set(id, call);
    try {
      const body = await this.#body(request, call.signal);
      return body === null
        ? errorAnswer(id, -32601, `Method not found: ${request.method}`, null, 'stateful')
        : result(id, body, 'stateful');
    } catch (error) {
      if (error instanceof ServerError) return errorOf(id, Buffer.from(error.raw), 'stateful');
      if (error instanceof GatewayError) return failureAnswer(id, error, 'stateful');
      return errorAnswer(id, -32603, messageOf(error), null, 'stateful');
    } finally {
      calls.delete(id);
    }
  }

  /** Returns the result as JSON text; null for a method that is not supported. */
  async #body(request: Message, signal: AbortSignal): Promise<string | null> {
    const client = this.#client;
    switch (request.method) {
      case 'initialize': {
        const serverInfo = client.serverInfo ?? (await client.initialize()) ?? { name: client.name, version: '0' };
        return JSON.stringify({
          protocolVersion: '2025-11-25',
          capabilities: { tools: { listChanged: true } },
          serverInfo,
        });
      }
      case 'ping':
        return '{}';
      case 'tools/list':
        return JSON.stringify({ tools: client.tools });
      case 'tools/call': {
        const given = bodyField(request, 'arguments');
        const args = given === null ? '{}' : text(request.bytes, given);
        const answer = await client.callTool(nameIn(request) ?? '', args, { signal });
        // Programs in JavaScript may return the result alone.
        return answer.raw ?? JSON.stringify(answer);
      }
      default:
        return null;
    }
  }
}
