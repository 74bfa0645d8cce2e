import { signal } from '@preact/signals';
import { logIn, logOut } from './api/operations.ts';
import { csrf, execToken, keepCsrf } from './api/request.ts';
import { errorText, toast } from './parts/toasts.tsx';
import { replace, route } from './router.ts';

/** Why the last login failed; null when it did not. */
export const loginError = signal<Error | null>(null);
export const loggingIn = signal(false);

/** Takes the code of a login link out of the address, and uses it. Such a link may be opened in a page that is there already. */
export async function beginLogin(): Promise<void> {
  const { page, rest } = route.value;
  if (page !== 'login') return;
  replace([]);
  const [code] = rest;
  if (code !== undefined) await enter({ code });
}

export async function enter(proof: { readonly code: string } | { readonly token: string }): Promise<void> {
  loggingIn.value = true;
  try {
    const opened = await logIn({ body: proof });
    loginError.value = null;
    keepCsrf(opened.csrf);
  } catch (error) {
    // A used link does not end the session that this browser may have.
    if (csrf.peek() === null) loginError.value = error as Error;
  } finally {
    loggingIn.value = false;
  }
}

/** Stays logged in where the gateway has not ended the session, and says so. */
export async function leave(): Promise<void> {
  execToken.value = null;
  try {
    await logOut();
  } catch (error) {
    // Otherwise it was over already.
    if (csrf.peek() !== null) {
      toast('bad', `You are still logged in: ${errorText(error)}`);
      return;
    }
  }
  keepCsrf(null);
}
