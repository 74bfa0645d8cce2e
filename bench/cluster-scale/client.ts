import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

const KINDS = {
  tools: ToolListChangedNotificationSchema,
  prompts: PromptListChangedNotificationSchema,
  resources: ResourceListChangedNotificationSchema,
} as const;

export type Kind = keyof typeof KINDS;

/** A client of the SDK at one node that counts the notifications it receives. */
export class ListeningClient {
  readonly #client = new Client({ name: 'bench', version: '1' });
  readonly #changes: Record<Kind, number> = { tools: 0, prompts: 0, resources: 0 };

  static async open(url: string): Promise<ListeningClient> {
    const listening = new ListeningClient();
    for (const [kind, schema] of Object.entries(KINDS)) {
      listening.#client.setNotificationHandler(schema, () => void listening.#changes[kind as Kind]++);
    }
    await listening.#client.connect(new StreamableHTTPClientTransport(new URL(url)) as Transport);
    return listening;
  }

  /** All pages. */
  async toolNames(): Promise<string[]> {
    const names: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await this.#client.listTools(cursor === undefined ? {} : { cursor });
      names.push(...page.tools.map(({ name }) => name));
      cursor = page.nextCursor;
      if (cursor === undefined) return names;
    }
  }

  /** Notifications since the last call. */
  changes(): Record<Kind, number> {
    const changes = { ...this.#changes };
    this.#changes.tools = this.#changes.prompts = this.#changes.resources = 0;
    return changes;
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}
