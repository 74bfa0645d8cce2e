import type { InputPrompt } from '../config/document/inputs.ts';

/** What a command prints to and is asked from; real streams, or a test's. */
export interface Terminal {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly version: string;
  /** Asks the person; null where there is none. */
  readonly ask: InputPrompt | null;
}
