#![allow(missing_docs, clippy::all)]
use fedbo_gp::lanes::*; use std::time::Instant;
#[inline(always)] fn w_cos((b,a):(&mut [f64],&[f64])){ for _ in 0..1000 { b.copy_from_slice(a); cos(b); std::hint::black_box(&mut *b);} }
#[inline(always)] fn w_dot((b,a):(&mut [f64],&[f64])){ let mut s=0.0; for _ in 0..1000 { s+=dot(b,a); std::hint::black_box(&mut *b);} std::hint::black_box(s); }
#[inline(always)] fn w_axpy((b,a):(&mut [f64],&[f64])){ for _ in 0..1000 { add_scaled(b,1e-9,a); std::hint::black_box(&mut *b);} }
#[inline(always)] fn w_exp((b,a):(&mut [f64],&[f64])){ for _ in 0..1000 { b.copy_from_slice(a); for v in b.iter_mut(){ *v=exp_negative(-*v);} std::hint::black_box(&mut *b);} }
#[inline(always)] fn w_std((b,a):(&mut [f64],&[f64])){ for _ in 0..1000 { b.copy_from_slice(a); for v in b.iter_mut(){ *v=v.cos();} std::hint::black_box(&mut *b);} }
#[inline(always)] fn w_sq((b,a):(&mut [f64],&[f64])){ for _ in 0..1000 { b.copy_from_slice(a); for v in b.iter_mut(){ *v=v.sqrt();} std::hint::black_box(&mut *b);} }
fn main(){ let n=104; let a:Vec<f64>=(0..n).map(|i|i as f64*0.37).collect(); let mut b=a.clone();
 for (name,f) in [("cos",w_cos as fn((&mut [f64],&[f64]))),("dot",w_dot),("axpy",w_axpy),("exp",w_exp),("std",w_std),("sqrt",w_sq)] { let mut best=1e9f64; for _ in 0..50 { let t=Instant::now(); match name {"cos"=>vectorized(w_cos,(&mut b[..],&a[..])),"dot"=>vectorized(w_dot,(&mut b[..],&a[..])),"axpy"=>vectorized(w_axpy,(&mut b[..],&a[..])),"std"=>vectorized(w_std,(&mut b[..],&a[..])),"sqrt"=>vectorized(w_sq,(&mut b[..],&a[..])),_=>vectorized(w_exp,(&mut b[..],&a[..]))}; best=best.min(t.elapsed().as_secs_f64()); let _=f;} println!("{name}: {:.3} ns per element", best*1e9/1000.0/n as f64);} }
