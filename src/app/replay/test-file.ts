import { type Conversation, readConversations } from './conversation.ts';
import { patternOf, VOLATILE } from './differences.ts';
import { type ExactJson, type ExactObject, isExactObject } from './exact-json.ts';
import { bodyOf, isStateless, skipReason } from './replay.ts';

/** How the test reaches the server. `keyIn`: the environment variable that may hold a key for it. */
export type TestedServer =
  | { readonly command: string; readonly args: readonly string[] }
  | { readonly url: string; readonly keyIn?: string };

/** Paths that depend on the era and not on the server. */
const OF_ERA = ['$.result.resultType', '$.result._meta'];

/**
 * Returns the text of a test for `node --test`, in which a client of the official SDK sends the recorded requests and asserts
 * the recorded answers; or the reason why that is impossible.
 */
export function testFile(
  jsonl: string,
  { of, ignore }: { readonly of: string | null; readonly ignore: readonly string[] },
  tested: TestedServer,
): { readonly text: string } | { readonly problem: string } {
  const read = readConversations(jsonl, of);
  if (typeof read === 'string') return { problem: read };
  const ignored = [...VOLATILE, ...OF_ERA, ...ignore].map((path) => patternOf(path).source);
  const sessions = read.conversations.map(sessionOf);
  return {
    text: PROGRAM.replace('%SERVER%', () => read.server.replaceAll(/[^\w.-]/g, '_'))
      .replace('%TESTED%', () => JSON.stringify(tested))
      .replace('%IGNORED%', () => JSON.stringify(ignored, null, 2))
      .replace('%SESSIONS%', () => JSON.stringify(sessions, null, 2)),
  };
}

function sessionOf(conversation: Conversation): object {
  const { session, client, capabilities, steps, asks, shown } = conversation;
  return {
    session,
    client,
    capabilities,
    negotiation: isStateless(conversation) ? 'auto' : 'legacy',
    asks: asks.flatMap(({ method, answer }) => (answer === null ? [] : [{ method, ...bodyOf(answer) }])),
    // Without lists in another era than the server's, which the gateway has translated.
    lists: shown
      .filter(({ meta, ambiguous }) => (meta !== undefined) === isStateless(conversation) && ambiguous.length === 0)
      .map(({ list: { method, resultKey }, items }) => ({ method, key: resultKey, items })),
    steps: steps
      .filter((step) => skipReason(step) === null && step.method !== 'server/discover')
      .map(({ method, title, request, answer }) => ({
        title,
        method,
        params: plainParams(request['params']),
        answer: bodyOf(answer!),
      })),
  };
}

/** Removes `_meta`, because the SDK adds what its era requires. */
function plainParams(params: ExactJson | undefined): ExactObject | undefined {
  if (!isExactObject(params)) return undefined;
  const { _meta, ...plain } = params;
  return plain;
}

const PROGRAM = `// Written by trunkline from a recording of %SERVER%. Needs @modelcontextprotocol/client 2.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const SERVER = %TESTED%;

/** Places in an answer that are not compared, as regular expressions. */
const IGNORED = %IGNORED%.map((source) => new RegExp(source));

const SESSIONS = %SESSIONS%;

const ANY = { '~standard': { version: 1, vendor: 'recording', validate: (value) => ({ value }) } };

function compared(value, path = '$') {
  if (IGNORED.some((pattern) => pattern.test(path))) return undefined;
  if (Array.isArray(value)) return value.map((item, at) => compared(item, \`\${path}[\${at}]\`));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([name, member]) => {
    const step = /^[A-Za-z_$][\\w$]*$/.test(name) ? \`.\${name}\` : \`['\${name}']\`;
    return [name, compared(member, path + step)];
  });
  return Object.fromEntries(members.filter(([, member]) => member !== undefined));
}

async function answerOf(client, { method, params }) {
  try {
    return { result: await client.request({ method, params }, ANY) };
  } catch (error) {
    if (typeof error.code !== 'number') throw error;
    return { error: { code: error.code } };
  }
}

for (const { session, client: info, capabilities, negotiation, asks, lists, steps } of SESSIONS) {
  test(\`session \${session}\`, async (t) => {
    const client = new Client(info, { capabilities, versionNegotiation: { mode: negotiation } });
    const left = [...asks];
    for (const method of new Set(asks.map((ask) => ask.method))) {
      client.setRequestHandler(method, () => {
        const at = left.findIndex((ask) => ask.method === method);
        assert.ok(at >= 0, \`\${method} was not asked so often in the recording\`);
        const [{ result, error }] = left.splice(at, 1);
        if (error !== undefined) throw Object.assign(new Error(error.message), { code: error.code });
        return result;
      });
    }
    const key = process.env[SERVER.keyIn ?? ''];
    const requestInit = key === undefined ? {} : { headers: { authorization: \`Bearer \${key}\` } };
    const transport =
      'url' in SERVER
        ? new StreamableHTTPClientTransport(new URL(SERVER.url), { requestInit })
        : new StdioClientTransport(SERVER);
    await client.connect(transport);
    try {
      for (const { method, key, items } of lists) {
        await t.test(method, async () => {
          const found = [];
          let cursor;
          do {
            const { result } = await answerOf(client, { method, params: cursor === undefined ? {} : { cursor } });
            found.push(...result[key]);
            cursor = result.nextCursor;
          } while (cursor !== undefined);
          assert.deepEqual(compared({ result: { [key]: found } }), compared({ result: { [key]: items } }));
        });
      }
      for (const [at, step] of steps.entries()) {
        await t.test(\`\${at + 1} \${step.title}\`, async () => {
          const answer = await answerOf(client, step);
          const { error } = step.answer;
          const wanted = error === undefined ? step.answer : { error: { code: error.code } };
          assert.deepEqual(compared(answer), compared(wanted));
        });
      }
      assert.deepEqual(left.map(({ method }) => method), [], 'what was not asked again');
    } finally {
      await client.close();
    }
  });
}
`;
