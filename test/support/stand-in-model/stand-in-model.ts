import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json, type ToolUse } from './dialect.ts';
import { GENERATE_CONTENT } from './generate-content.ts';
import { MESSAGES } from './messages.ts';
import { RESPONSES } from './responses.ts';

const DIALECTS = [MESSAGES, RESPONSES, GENERATE_CONTENT];

/**
 * A stand-in for a model behind the interfaces of Anthropic, OpenAI and Google: it calls the given tools one after the
 * other, then says it is done. It keeps the tools that the agent offered and their results for the test.
 */
export class StandInModel {
  readonly url: string;
  /** Names of all tools that were offered in any request. */
  readonly offered = new Set<string>();
  /** Names of the tools of the first request that offers any. */
  firstOffered: readonly string[] | null = null;
  /** Tool results as the agent handed them to the model, as JSON text. */
  readonly results: string[] = [];
  readonly #server: ReturnType<typeof createServer>;
  readonly #script: readonly ToolUse[];

  private constructor(server: ReturnType<typeof createServer>, script: readonly ToolUse[]) {
    this.#server = server;
    this.#script = script;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(script: readonly ToolUse[]): Promise<StandInModel> {
    let model: StandInModel | null = null;
    const server = createServer((request, response) => void model!.#serve(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    model = new StandInModel(server, script);
    return model;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const dialect = request.method === 'POST' ? DIALECTS.find(({ speaks }) => speaks(request.url!)) : undefined;
    if (dialect === undefined) {
      response.writeHead(404, { 'content-type': 'application/json' }).end('{}');
      return;
    }
    if (request.url!.includes('count_tokens')) {
      json(response, { input_tokens: 1 });
      return;
    }
    const body = Buffer.concat(chunks).toString();
    const { offered, results } = dialect.read(body);
    for (const name of offered) this.offered.add(name);
    if (offered.length > 0) this.firstOffered ??= offered;
    this.results.splice(0, this.results.length, ...results);
    // Requests without tools are side requests of the agent, for titles for example.
    dialect.write(response, offered.length === 0 ? undefined : this.#script[results.length], body);
  }
}
