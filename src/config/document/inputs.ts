import { inputVariable } from './expand.ts';
import { child, isString, type ObjectNode } from './node.ts';

export interface InputQuestion {
  readonly id: string;
  readonly description: string;
  readonly password: boolean;
}

/** Asks the user, on a terminal. Null when there is nobody to ask. */
export type InputPrompt = (question: InputQuestion) => Promise<string | null>;

/**
 * The answers to the inputs that the text refers to: from the environment, else from the user, else the declared
 * default. Nobody is asked for an input that nothing needs.
 */
export async function answerInputs(
  root: ObjectNode,
  text: string,
  env: Readonly<Record<string, string | undefined>>,
  prompt: InputPrompt | null,
): Promise<Map<string, string>> {
  const answers = new Map<string, string>();
  const declared = declarations(root);
  for (const [, id = ''] of text.matchAll(/\$\{input:([^}]{0,256})\}/g)) {
    if (answers.has(id)) continue;
    const { description = id, password = false, fallback = null } = declared.get(id) ?? {};
    const answer = env[inputVariable(id)] ?? (await prompt?.({ id, description, password })) ?? fallback;
    if (answer !== null && answer !== undefined) answers.set(id, answer === '' ? (fallback ?? '') : answer);
  }
  return answers;
}

interface Declaration {
  readonly description: string;
  readonly password: boolean;
  readonly fallback: string | null;
}

function declarations(root: ObjectNode): Map<string, Declaration> {
  const found = new Map<string, Declaration>();
  const inputs = child(root, 'inputs');
  for (const item of inputs?.kind === 'array' ? inputs.items : []) {
    if (item.kind !== 'object') continue;
    const id = child(item, 'id');
    if (!isString(id)) continue;
    const description = child(item, 'description');
    const fallback = child(item, 'default');
    found.set(id.text, {
      description: isString(description) ? description.text : id.text,
      password:
        child(item, 'password')?.kind === 'boolean' && (child(item, 'password') as { value: unknown }).value === true,
      fallback: isString(fallback) ? fallback.text : null,
    });
  }
  return found;
}

/** Nobody is asked twice for the same input: the answers of the first reading hold for all later ones. */
export function rememberInputs(ask: InputPrompt): InputPrompt {
  const answers = new Map<string, Promise<string | null>>();
  return (question) => {
    const answer = answers.get(question.id) ?? ask(question);
    answers.set(question.id, answer);
    return answer;
  };
}
