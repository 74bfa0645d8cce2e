import { type BigTool, bigText } from '../upstream/answers.ts';

/**
 * Whether an answer is right: null, or what is wrong with it. An answer counts only when it is the one message, with
 * the id and the content of this very request; so an answer to another client, an error sent as a result, a cut
 * or a changed text void a measurement.
 */
export function echoProblem(body: Buffer, id: number, text: string): string | null {
  return resultProblem(body, id, (result) => contentProblem(result, text));
}

/** As `echoProblem`, for the mebibyte: it compares the text as bytes, because parsing would be most of the client's work. */
export function bigProblem(body: Buffer, id: number, tool: BigTool): string | null {
  const text = bigText(tool);
  const at = body.indexOf(text.subarray(0, 64));
  if (at < 0) return `no big text in ${excerpt(body)}`;
  const end = at + text.length;
  if (end > body.length || text.compare(body, at, end) !== 0) return 'the big text is not what was sent';
  const around = Buffer.concat([body.subarray(0, at), body.subarray(end)]);
  return resultProblem(around, id, (result) => contentProblem(result, ''));
}

/** What one page of a list holds: the names of its tools and where the next page is, '' on the last one. */
export interface Page {
  readonly names: readonly unknown[];
  readonly next: string;
}

/** One page, or what is wrong with it. */
export function readPage(body: Buffer, id: number): Page | string {
  let page: Page | null = null;
  const problem = resultProblem(body, id, (result) => {
    const { tools, nextCursor } = result;
    if (!Array.isArray(tools)) return 'no tools';
    page = { names: tools.map((tool: { name?: unknown }) => tool.name), next: String(nextCursor ?? '') };
    return null;
  });
  return problem ?? page!;
}

/** Whether all pages together are the whole list: every tool once. */
export function listProblem(names: readonly unknown[], tools: number): string | null {
  return names.length === tools && new Set(names).size === tools ? null : `${names.length} tools instead of ${tools}`;
}

function resultProblem(
  body: Buffer,
  id: number,
  check: (result: Record<string, unknown>) => string | null,
): string | null {
  let message: { jsonrpc?: unknown; id?: unknown; result?: Record<string, unknown> } | null;
  try {
    message = JSON.parse(messageText(body));
  } catch {
    return `not JSON: ${excerpt(body)}`;
  }
  if (message === null || message.jsonrpc !== '2.0') return `not JSON-RPC: ${excerpt(body)}`;
  if (message.id !== id) return `the id of another request: ${excerpt(body)}`;
  if (typeof message.result !== 'object' || message.result === null) return `no result: ${excerpt(body)}`;
  const problem = check(message.result);
  return problem === null ? null : `${problem}: ${excerpt(body)}`;
}

function contentProblem(result: Record<string, unknown>, text: string): string | null {
  const content = result['content'] as { type?: unknown; text?: unknown }[] | undefined;
  const right = content?.length === 1 && content[0]!.type === 'text' && content[0]!.text === text;
  return right && result['isError'] !== true ? null : 'wrong content';
}

/** The body itself, or the data of the last event that has some. */
function messageText(body: Buffer): string {
  const text = body.toString();
  if (text.startsWith('{')) return text;
  return (
    text
      .split(/\r?\n\r?\n/)
      .flatMap(eventData)
      .at(-1) ?? text
  );
}

function eventData(event: string): string[] {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'));
  const data = lines.map((line) => line.slice(5).trimStart()).join('\n');
  return data === '' ? [] : [data];
}

function excerpt(body: Buffer): string {
  return body.toString('utf8', 0, 200);
}
