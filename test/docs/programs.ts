/** The code around the TypeScript of the pages, by page and first line. */
interface Program {
  readonly before?: string;
  readonly after?: string;
  /** Matches the output. */
  readonly prints: RegExp;
  /** Keys that the program needs in the file of its gateway. */
  readonly gateway?: (nats: string) => object;
}

const GATEWAY =
  "import { createGateway } from 'trunkline';\nconst gateway = await createGateway({ config: '.mcp.json' });\n";
const KEY = 'key-of-the-program-0';

export const PROGRAMS: Readonly<Record<string, Program>> = {
  "README.md import { createGateway } from 'trunkline';": {
    after: 'console.log(JSON.stringify(result));',
    prints: /entities/,
  },
  "docs/embedding.md import { createGateway, inProcess } from 'trunkline';": {
    before: `import { McpServer } from '@modelcontextprotocol/server';
      import * as z from 'zod';
      function makeMcpServer(): McpServer {
        const server = new McpServer({ name: 'mine', version: '1' });
        server.registerTool('hello', { inputSchema: z.object({ name: z.string() }) }, ({ name }) => ({ content: [{ type: 'text', text: 'hello ' + name }] }));
        return server;
      }`,
    after: 'console.log(JSON.stringify(content), raw.length);',
    prints: /hello you/,
  },
  "docs/embedding.md app.all('/mcp', ({ env }) => {": {
    before: `import { type HttpBindings, serve } from '@hono/node-server';
      import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
      import { Hono } from 'hono';
      ${GATEWAY}
      const app = new Hono<{ Bindings: HttpBindings }>();`,
    after: `const server = serve({ fetch: app.fetch, port: 0 }, async ({ port }) => {
        const answer = await fetch('http://127.0.0.1:' + port + '/mcp', {
          method: 'POST',
          headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } } }),
        });
        console.log(answer.status, await answer.text());
        server.close();
        await gateway.close();
        process.exit();
      });`,
    prints: /^200 .*serverInfo/s,
  },
  "docs/reference/embedding.md gateway.on('drainAsked', () => stopTakingWork());": {
    before: `${GATEWAY}function stopTakingWork(): void {}`,
    after: "console.log('closing'); await gateway.close();",
    prints: /closing/,
  },
  "docs/reference/embedding.md import { natsMessenger, openNode } from 'trunkline';": {
    before: `const secret = process.env['TRUNKLINE_CLUSTER_SECRET']!;
      const histogram = { record(_ms: number, labels: object): void { console.log(JSON.stringify(labels)); } };
      const definition = { command: 'npx', args: ['-y', '@modelcontextprotocol/server-memory'] };
      async function readPage(_cursor: string | null) { return { servers: [{ name: 'memory', definition }], next: null }; }`,
    after: "console.log('open'); await node.close();",
    prints: /open/,
  },
  "docs/reference/embedding.md import { createGateway } from 'trunkline';": {
    after: `await using gateway = await createGateway({ config: '.mcp.json' });
      await gateway.ready();
      console.log((await bridgeAll(gateway)).length > 0, typeof compareToolLists);`,
    prints: /true function/,
  },
  "docs/reference/public-subjects.md import { connect, headers as messageHeaders } from '@nats-io/transport-node';": {
    before: `const key = '${KEY}';`,
    after: 'console.log(JSON.stringify(result), tools.length); process.exit();',
    prints: /entities.* \d+/,
    gateway: (nats) => ({
      agents: { program: { key: KEY } },
      cluster: { nats, publicSubjects: true },
    }),
  },
};
