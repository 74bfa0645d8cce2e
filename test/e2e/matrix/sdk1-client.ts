import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ProgressNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { type Answering, Heard, type Json, type MatrixClient } from './matrix-client.ts';
import { capabilitiesOf } from './revisions.ts';

/** A client made with SDK 1, in the newest revision it knows. */
export class Sdk1Client implements MatrixClient {
  readonly revision = '2025-11-25';
  readonly heard = new Heard();
  readonly asked: { readonly method: string; readonly params: Json }[] = [];
  answering: Answering = () => ({});
  readonly #client: Client;

  private constructor() {
    this.#client = new Client(
      { name: 'matrix-sdk1', version: '1.0.0' },
      { capabilities: capabilitiesOf(this.revision) as never },
    );
    this.#client.fallbackRequestHandler = async ({ method, params }) => {
      this.asked.push({ method, params });
      return this.answering(method, params) as never;
    };
    // In place of the SDK's own handler, which forgets a token at the answer: progress just before it would be lost.
    this.#client.setNotificationHandler(ProgressNotificationSchema, ({ method, params }) =>
      this.heard.add(method, params),
    );
    this.#client.fallbackNotificationHandler = async ({ method, params }) => this.heard.add(method, params);
  }

  static async connect(mcpUrl: string): Promise<Sdk1Client> {
    const client = new Sdk1Client();
    await client.#client.connect(new StreamableHTTPClientTransport(new URL(mcpUrl)) as never);
    return client;
  }

  request(method: string, params: Json, signal?: AbortSignal): Promise<Json> {
    return this.#client.request({ method, params }, z.any(), signal === undefined ? {} : { signal });
  }

  async watch(): Promise<void> {}

  async subscribe(uri: string): Promise<void> {
    await this.#client.subscribeResource({ uri });
  }

  async callLogging(level: string, name: string, args: Json): Promise<Json> {
    await this.#client.setLoggingLevel(level as 'info');
    return this.request('tools/call', { name, arguments: args });
  }

  readonly task = async (name: string) => {
    const states: string[] = [];
    const stream = this.#client.experimental.tasks.callToolStream({ name, arguments: {} }, undefined, {
      task: { ttl: 60_000 },
    });
    for await (const message of stream) {
      if (message.type === 'error') throw message.error;
      if (message.type === 'result') return { states, result: message.result as Json };
      states.push(message.task.status);
    }
    throw new Error('no end of the task');
  };

  async close(): Promise<void> {
    await this.#client.close();
  }
}
