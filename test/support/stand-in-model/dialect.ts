import type { ServerResponse } from 'node:http';

/** A tool as the model calls it. */
export interface ToolUse {
  readonly name: string;
  readonly input: object;
}

/** A request of an agent to a model. */
export interface Asked {
  /** Names of the tools that it offers. */
  readonly offered: readonly string[];
  /** What the tools answered so far in this conversation, as JSON text. */
  readonly results: readonly string[];
}

/** The part of the API of a model's provider that an agent needs to call one tool after the other. */
export interface Dialect {
  speaks(path: string): boolean;
  read(body: string): Asked;
  /** Answers with the use of a tool, or with `done`. */
  write(response: ServerResponse, use: ToolUse | undefined, body: string): void;
}

export function json(response: ServerResponse, value: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

/** One event of a stream whose events are named as their `type`. */
export function event(response: ServerResponse, type: string, data: object): void {
  response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
}
