import { homedir } from 'node:os';
import type { Client } from './client.ts';
import { Expander } from './document/expand.ts';
import type { Problems, Source } from './problem/problem.ts';
import type { ServerContext } from './server/read-server.ts';

/** What the definitions of one document are read with. */
export interface Reading {
  readonly source: Source;
  readonly problems: Problems;
  readonly client: Client;
  /** Unknown keys are errors. */
  readonly strict: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Answers to the inputs that could be had. */
  readonly inputs: ReadonlyMap<string, string>;
  /** `${file:…}` starts here. */
  readonly fileFolder: string;
  /** All other paths start here. */
  readonly folder: string;
  /** Gets the values that must not be shown. */
  readonly secrets: Set<string>;
  /** Gets the files whose change is a change of the configuration. */
  readonly files: Set<string>;
}

/** The context that every definition of a document is read in, with an expander of its own. */
export function readingContext(reading: Reading): ServerContext {
  const { source, problems, client, env, inputs, fileFolder, folder, strict, secrets, files } = reading;
  const expander = new Expander({
    source,
    problems,
    client: client.id,
    fileFolder,
    workspaceFolder: folder,
    env,
    inputs,
  });
  const home = env['HOME'] ?? homedir();
  return { source, problems, expander, client, strict, secrets, files, fileFolder, folder, home };
}
