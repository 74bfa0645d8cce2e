/**
 * A gateway inside a program: one server that lives in the program, and one from npm that runs as a process. Prints
 * what it finds and fails if anything is not as it should be.
 */
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { createGateway, inProcess } from 'trunkline';

const greeter = inProcess((transport) => {
  const server = new McpServer({ name: 'greeter', version: '1.0.0' });
  server.registerTool('hello', { description: 'Greets you.' }, () => ({
    content: [{ type: 'text', text: 'Hello from inside the program!' }],
  }));
  return server.connect(transport);
});

await using gateway = await createGateway({
  servers: {
    greeter,
    // In a project of your own: { command: 'npx', args: ['-y', '@modelcontextprotocol/server-everything'] }
    everything: { command: resolve(import.meta.dirname, '../../node_modules/.bin/mcp-server-everything') },
  },
});

for (const { name, state, toolCount, reason } of await gateway.ready()) {
  console.log(`${name}: ${state}, ${toolCount} tools${reason === null ? '' : `, ${reason}`}`);
}

const tools = await gateway.tools();
console.log(`${tools.length} tools in all, for example ${tools.at(-1)?.name}`);

const hello = await gateway.callTool('greeter__hello');
console.log(hello.content[0]?.text);
assert.equal(hello.content[0]?.text, 'Hello from inside the program!');

// Arguments may be JSON text: it reaches the server to the digit.
const echoed = await gateway.callTool('everything__echo', '{"message":"one gateway, many servers"}');
console.log(echoed.content[0]?.text);
assert.match(echoed.content[0]?.text ?? '', /one gateway, many servers/);
