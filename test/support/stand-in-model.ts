import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ToolUse {
  readonly name: string;
  readonly input: object;
}

interface ModelRequest {
  readonly stream?: boolean;
  readonly tools?: readonly { readonly name: string }[];
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | readonly { readonly type: string }[];
  }[];
}

/**
 * A stand-in for a model behind the Messages API: it calls the given tools one after the other, then says it is done.
 * What the agent offered and what the tools answered is kept for the test to look at.
 */
export class StandInModel {
  readonly url: string;
  readonly offered = new Set<string>();
  /** Tool results as the agent handed them to the model, as JSON text. */
  readonly results: string[] = [];
  readonly #server: ReturnType<typeof createServer>;

  private constructor(server: ReturnType<typeof createServer>) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(script: readonly ToolUse[]): Promise<StandInModel> {
    let model: StandInModel | null = null;
    const server = createServer((request, response) => void model!.#serve(request, response, script));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    model = new StandInModel(server);
    return model;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse, script: readonly ToolUse[]): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.method !== 'POST' || !request.url!.includes('/v1/messages')) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{}');
      return;
    }
    if (request.url!.includes('count_tokens')) {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"input_tokens":1}');
      return;
    }
    const asked = JSON.parse(Buffer.concat(chunks).toString()) as ModelRequest;
    for (const { name } of asked.tools ?? []) this.offered.add(name);
    const answered = asked.messages
      .flatMap(({ content }) => (typeof content === 'string' ? [] : content))
      .filter(({ type }) => type === 'tool_result');
    this.results.splice(0, this.results.length, ...answered.map((block) => JSON.stringify(block)));
    // Requests without tools are the agent's side errands (titles and the like).
    const next = (asked.tools ?? []).length === 0 ? undefined : script[answered.length];
    const block =
      next === undefined
        ? { type: 'text', text: 'done' }
        : { type: 'tool_use', id: `toolu_${answered.length}`, ...next };
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'stand-in',
      content: [block],
      stop_reason: next === undefined ? 'end_turn' : 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    if (asked.stream === true) stream(response, message);
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(message));
  }
}

function stream(response: ServerResponse, message: { content: readonly object[]; stop_reason: string }): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const event = (type: string, data: object) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  const block = message.content[0] as { type: string; text?: string; input?: object };
  const isText = block.type === 'text';
  event('message_start', { message: { ...message, content: [], stop_reason: null } });
  event('content_block_start', {
    index: 0,
    content_block: isText ? { type: 'text', text: '' } : { ...block, input: {} },
  });
  const delta = isText
    ? { type: 'text_delta', text: block.text }
    : { type: 'input_json_delta', partial_json: JSON.stringify(block.input) };
  event('content_block_delta', { index: 0, delta });
  event('content_block_stop', { index: 0 });
  event('message_delta', {
    delta: { stop_reason: message.stop_reason, stop_sequence: null },
    usage: { output_tokens: 1 },
  });
  event('message_stop', {});
  response.end();
}
