import type { Dialect } from './dialect.ts';

interface Request {
  readonly tools?: readonly { readonly functionDeclarations?: readonly { readonly name: string }[] }[];
  readonly contents: readonly { readonly parts: readonly { readonly functionResponse?: object }[] }[];
}

/** The Gemini API. */
export const GENERATE_CONTENT: Dialect = {
  speaks: (path) => /:(?:streamG|g)enerateContent/.test(path),

  read(body) {
    const { tools = [], contents } = JSON.parse(body) as Request;
    return {
      offered: tools.flatMap(({ functionDeclarations = [] }) => functionDeclarations.map(({ name }) => name)),
      results: contents
        .flatMap(({ parts }) => parts)
        .flatMap(({ functionResponse }) => (functionResponse === undefined ? [] : [JSON.stringify(functionResponse)])),
    };
  },

  write(response, use) {
    const part = use === undefined ? { text: 'done' } : { functionCall: { name: use.name, args: use.input } };
    const answer = {
      candidates: [{ index: 0, content: { role: 'model', parts: [part] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
      modelVersion: 'stand-in',
    };
    const streamed = response.req.url!.includes('alt=sse');
    response.writeHead(200, { 'content-type': streamed ? 'text/event-stream' : 'application/json' });
    response.end(streamed ? `data: ${JSON.stringify(answer)}\n\n` : JSON.stringify(answer));
  },
};
