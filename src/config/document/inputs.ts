import type { ConfigInput } from '../../../schema/config-input.d.ts';
import { configJsonSchema } from '../schema-json.ts';
import { inputVariable } from './expand.ts';
import { child, type ObjectNode } from './node.ts';
import { withDefaults } from './shape.ts';

interface InputQuestion {
  readonly id: string;
  readonly description: string;
  readonly password: boolean;
  /** Ends the question without an answer. */
  readonly signal?: AbortSignal;
}

/** Asks the user on a terminal; null without a terminal. */
export type InputPrompt = (question: InputQuestion) => Promise<string | null>;

/**
 * The answers to the inputs that the text refers to: from the environment, else from the user, else the declared default.
 * Does not ask for inputs that the text does not refer to.
 */
export async function answerInputs(
  declared: DeclaredInputs,
  text: string,
  env: Readonly<Record<string, string | undefined>>,
  prompt: InputPrompt | null,
): Promise<Map<string, string>> {
  const answers = new Map<string, string>();
  for (const [, id = ''] of text.matchAll(/\$\{input:([^}]{0,256})\}/g)) {
    if (answers.has(id)) continue;
    const { description = id, password = false, default: fallback = null } = declared.get(id) ?? {};
    const answer = env[inputVariable(id)] ?? (await prompt?.({ id, description, password })) ?? fallback;
    if (answer !== null && answer !== undefined) answers.set(id, answer === '' ? (fallback ?? '') : answer);
  }
  return answers;
}

/** The declared inputs of a document, by id. */
export type DeclaredInputs = ReadonlyMap<string, NonNullable<ConfigInput['inputs']>[number]>;

export function declaredInputs(root: ObjectNode): DeclaredInputs {
  const schema = configJsonSchema().properties!['inputs']!;
  const inputs = withDefaults(child(root, 'inputs'), schema) as NonNullable<ConfigInput['inputs']>;
  return new Map(inputs.map((input) => [input.id, input]));
}

/** Asks for each input once: later readings get the answers of the first one. */
export function rememberInputs(ask: InputPrompt): InputPrompt {
  const answers = new Map<string, Promise<string | null>>();
  return (question) => {
    const answer = answers.get(question.id) ?? ask(question);
    answers.set(question.id, answer);
    return answer;
  };
}
